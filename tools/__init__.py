"""Programs that developers run and nobody deploys: generators, checks, releases."""
