/* Stands in for the theme's file of the same name, 1.5 MB of drawings: the same icons come from its web font. */
