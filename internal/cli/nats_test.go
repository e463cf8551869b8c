package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A trainer that listens for other machines prints the command of a worker as it must be
// typed. Started again it has the same certificate.
func TestPrintedCommand(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	generate := &process{args: []string{"sigma", "generate", "small", "--out", file("trace")}}
	generate.start(t)
	require.NoError(t, <-generate.dead)
	printed := regexp.MustCompile(`workers may come: (sigma worker --nats tls://[^ ]+:\d+ --nats-fingerprint (sha256:[0-9a-f]{64}) --nats-token-file .+)`)
	seen := map[string]bool{}
	for range 2 {
		stderr, err := os.Create(file("stderr"))
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(file("checkpoint/train.checkpoint")))
		trainer := &process{stderr: stderr, args: []string{
			"sigma", "train", "--trace", file("trace"), "--evaluations", "20", "--workers", "0", "--listen", ":0",
			"--nats-token-file", file("token"), "--checkpoint", file("checkpoint"), "--out", file("policy.yaml"),
		}}
		trainer.start(t)
		var command []string
		require.Eventually(t, func() bool {
			command = printed.FindStringSubmatch(readText(t, stderr.Name()))
			return command != nil
		}, 30*time.Second, 20*time.Millisecond)
		worker := &process{args: strings.Fields(command[1])}
		worker.start(t)
		err = <-trainer.dead
		require.NoError(t, worker.cmd.Process.Signal(os.Interrupt))
		require.Error(t, <-worker.dead, "interrupted")
		require.NoError(t, err, worker.out.String())
		require.Contains(t, worker.out.String(), "is over: ")
		require.NoError(t, stderr.Close())
		seen[command[2]] = true
	}
	require.Len(t, seen, 1)
}
