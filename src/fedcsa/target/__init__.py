"""The site without outcomes: it announces, chooses, mixes and concludes."""
