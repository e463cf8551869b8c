// Package reportdiff reports the changes between two pages of comparisons, from the data inside them.
package reportdiff
