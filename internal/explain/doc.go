// Package explain shows the reasons of a decision, as text and as JSON. It turns what
// the deciding packages report of one decision into names and sentences. It decides
// nothing itself.
package explain
