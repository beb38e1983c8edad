"""Archives of classes and of Spark, made once so that processes start sooner."""
