// Package cli has the commands of sigma: they make and convert traces, replay and compare
// placement policies on them, and train policies.
//
// The commands hold flags and wiring only. Results go to standard output,
// everything else to standard error. The exit code is 0 for success, 1 for a
// failure, 2 for wrong use, and 130 after an interrupt.
//
// Size: one file a command, flags and help with it; the work of a command is in packages of its
// own.
package cli
