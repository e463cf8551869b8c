// Package reportdiff says what changed between two pages of comparisons, from the data inside them.
package reportdiff
