// Sigma is the command line of the product: see internal/cli.
package main

import "github.com/sigma-scheduler/sigma/internal/cli"

// version is set by the linker: -ldflags '-X main.version=…'.
var version string

func main() { cli.Main(cli.Program{Version: version}) }
