"""Discovery over HTTP: what is asked, what an answer means, and the connection for asyncio."""
