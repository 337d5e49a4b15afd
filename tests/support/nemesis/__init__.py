"""A fleet, somebody who hurts it by a timetable, and a judge who knows only what was wanted and what is on record."""
