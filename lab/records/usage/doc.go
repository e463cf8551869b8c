// Package usage measures placement by the measured use of workloads: machines beside those by
// request, and the time for which they are above capacity on later days than those that the sizes are of.
package usage
