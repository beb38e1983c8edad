"""The example of a test with `MemoryMesh` is a test that passes."""

from examples.test_with_memory_mesh import test_a_record_that_fails_is_tried_again_after_its_backoff

__all__ = ["test_a_record_that_fails_is_tried_again_after_its_backoff"]
