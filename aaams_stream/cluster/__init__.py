"""One film in parts, on many machines, and one volume of it. What Dask knows ends here."""
