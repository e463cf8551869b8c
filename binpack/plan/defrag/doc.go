// Package defrag finds a few moves of placed items: they empty machines or let in an item
// that fits nowhere. One guided ejection search does both: an item takes the place of
// another, which is placed elsewhere in turn (Nagata and Bräysy, "A powerful route
// minimization heuristic for the vehicle routing problem with time windows", 2009).
//
// The result is a sequence of which every prefix keeps all constraints: a chain of
// ejections ends in free room and is carried out from its end.
package defrag
