// Package autoscaler measures autoscalers on the scenarios of mpa/sim: one page for each
// side of the split into what agents could be tuned on and what they are judged by.
//
// It runs the simulator in this process, since one run is a value of mpa/sim and the page
// needs all of them.
package autoscaler
