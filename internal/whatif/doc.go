// Package whatif answers questions about capacity: the needs of a trace with more items, or
// with fewer or other machines. It changes the trace, plans it as "sigma plan" does, and finds
// binding constraints by relaxing them: a resource, a rule or a type binds where its absence
// makes the answer better.
package whatif
