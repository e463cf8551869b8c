// Package durable writes files that survive a kill, a full disk and a machine
// that loses power.
//
//   - [WriteFile] and [Create] replace a file, [WriteDir] a folder. The new one
//     is written next to the old one, under the hidden name ".NAME.new", synced
//     and renamed. A reader of NAME finds the old one or the new one, whole.
//     A kill may leave the hidden one; the next write of NAME removes it.
//   - [AppendLog] appends records to a file, a line each. A kill may cut off the
//     last line; the next [OpenLog] removes it. [Reader] reads such a file.
//   - [RotatingLog] is one that keeps full files aside and begins in new ones, also where
//     another program renamed, removed or cut its file.
//
// One writer at a time: a second one gets an error, or waits (WriteDir). Locks
// end with the process that holds them. Where the system or the file system has
// no locks, the caller must take care of it.
//
// The package does not depend on the content of the files.
package durable
