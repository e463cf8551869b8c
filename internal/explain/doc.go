// Package explain shows why a decision came out as it did: for people, and as
// JSON. It turns what the deciding packages say of one decision into names and
// sentences, and decides nothing itself.
package explain
