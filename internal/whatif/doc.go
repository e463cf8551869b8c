// Package whatif answers questions about capacity: what a trace needs with more items, or with
// fewer or other machines. It changes the trace, plans it as "sigma plan" does, and finds what
// binds by relaxing it: a resource, a rule or a type binds where its absence makes the answer
// better.
package whatif
