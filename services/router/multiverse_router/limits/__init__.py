"""Who may have how much at once and in a minute, in this router and over several of them."""
