// Package explain shows the reasons of a decision, as text and as JSON. It turns the
// reports of the deciding packages on one decision into names and sentences. It
// decides nothing itself.
package explain
