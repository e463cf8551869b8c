//go:build !unix

package durable

import "os"

// TryLock does nothing where files cannot be locked.
func TryLock(*os.File) error { return nil }

// waitLock does nothing where files cannot be locked.
func waitLock(*os.File) error { return nil }
