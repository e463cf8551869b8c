package durable

// Step is called before each change of the file system with the next step and
// its path. Tests stop the process in it; see package killtest.
var Step = func(next, path string) {}
