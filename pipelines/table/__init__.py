"""A table of records in which each id stands once, however often it is written and whenever writers are killed.

| Module | Holds |
|---|---|
| `identity` | PURE: which record a row is: (producer, sequence) |
| `seen` | PURE: the exact set of sequences a table holds, in chunks of 65,536 |
| `manifest` | PURE: the state of a table and its transitions |
| `rows` | PURE: columns, order, merging of sorted blocks |
| `directory` | files on disk, and the one atomic step |
| `merging` | what a task does with its rows |
| `writer` | the one writer of a table |
| `delta` | the same table as a Delta log |
| `reading` | what users open |
"""
