"""Case studies (Table 6): cases written for this project, and rated pairs on which judges and people disagree."""
