package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/observe"
)

// Files of ports that are gone go too, also those that an agent before has left; those of others stay.
func TestSizesOfAgentBefore(t *testing.T) {
	begin, out := time.Now(), t.TempDir()
	write := func(now time.Time, port uint16) []string {
		w, err := observe.NewWatcher(1e9, 1000, 4)
		require.NoError(t, err)
		a := &agent{options: &options{out: out}, watcher: w, written: map[string]bool{}}
		for i := range leastSizes {
			a.watcher.Add(now, flow.Record{Interface: "pod1", Source: netip.MustParseAddrPort("10.0.0.1:40000"), Destination: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), port), Protocol: flow.TCP, Bytes: uint64(1000 + i), End: flow.Finished})
		}
		require.NoError(t, a.writeSizes(&observe.Report{At: now}))
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	mine := filepath.Join(out, "sizes-mine.csv")
	require.NoError(t, os.WriteFile(mine, []byte("size_bytes,cdf\n1000,1\n"), 0o600))
	require.Equal(t, []string{"sizes-mine.csv", "sizes-pod1-tcp-80-client.csv", "sizes.csv"}, write(begin, 80))
	require.Equal(t, []string{"sizes-mine.csv", "sizes-pod1-tcp-80-client.csv", "sizes-pod1-tcp-81-client.csv", "sizes.csv"}, write(begin.Add(time.Minute), 81), "it may have a file again")
	require.Equal(t, []string{"sizes-mine.csv", "sizes-pod1-tcp-82-client.csv", "sizes.csv"}, write(begin.Add(2*stale), 82))
}
