// Package evidence evaluates recorded days: a better policy ([Learn]), the cost of a policy in
// place of another ([Trial]), its expected saving ([Promise]), and a change of the workload
// ([Monitor]). It uses traces, no cluster and no clock.
package evidence
