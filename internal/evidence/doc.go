// Package evidence says what recorded days show: a better policy ([Learn]), what a policy would
// have cost in the place of another ([Trial]), what it may be expected to save ([Promise]), and
// that the workload has changed ([Monitor]). It knows traces, no cluster and no clock.
package evidence
