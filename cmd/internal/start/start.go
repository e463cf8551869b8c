// Package start has the main function of all servers: log, signals, version and exit code.
package start

import (
	"cmp"
	"context"
	"flag"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/golang/glog"
	"github.com/spf13/cobra"
)

// Version is that of a program: that of the linker, without it the module's.
func Version(linked string) string {
	if info, ok := debug.ReadBuildInfo(); ok && linked == "" {
		linked = info.Main.Version
	}
	return cmp.Or(linked, "unknown")
}

// Program runs the command of a program until it ends, SIGINT, SIGTERM or one of more signals, and returns the exit
// code. A second signal ends the process at once.
func Program(cmd *cobra.Command, more ...os.Signal) int {
	// By default glog writes files; the libraries log with klog.
	_ = flag.Set("logtostderr", "true")
	defer glog.Flush()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	ctx, stop := signal.NotifyContext(context.Background(), append(more, os.Interrupt, syscall.SIGTERM)...)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := cmd.ExecuteContext(ctx); err != nil {
		glog.Errorf("%s: %v", cmd.Name(), err)
		return 1
	}
	return 0
}
