//go:build !unix

package snapshot

import "os"

// lock does nothing where files cannot be locked: take care that only one
// process records in a file.
func lock(*os.File) error { return nil }
