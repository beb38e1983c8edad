"""Every use of aiokafka's private parts by the producer, by part; a test pins each against one release."""
