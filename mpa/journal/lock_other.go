//go:build !unix

package journal

import "os"

// lock does nothing where files cannot be locked: take care that only one
// writer has a journal open.
func lock(*os.File) error { return nil }
