//go:build !unix

package durable

import "os"

// tryLock does nothing where files cannot be locked.
func tryLock(*os.File) error { return nil }

// waitLock does nothing where files cannot be locked.
func waitLock(*os.File) error { return nil }
