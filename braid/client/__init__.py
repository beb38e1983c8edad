"""The SDK: mesh, producer, consumer and their sessions. Applications reach it through `import braid`."""
