//go:build !unix

package ledger

import "os"

// lock does nothing where files cannot be locked: take care that only one
// writer has a log open.
func lock(*os.File) error { return nil }
