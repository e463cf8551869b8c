// Package policies holds the policies that Sigma ships, as files compiled into
// the command line. Their names are explained in README.md.
package policies

import "embed"

// Files holds the shipped policies: every *.yaml of this folder. (The pattern
// is wider because one that matches nothing does not compile.)
//
//go:embed *
var Files embed.FS
