package remote

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// bomb is an archive with one file of newlines. Parts of a gzip file are packed by
// themselves, so it takes no time to make.
func bomb(t *testing.T, mib int) []byte {
	t.Helper()
	pack := func(content []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(content)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return b.Bytes()
	}
	var head bytes.Buffer
	require.NoError(t, tar.NewWriter(&head).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: "events.csv", Size: int64(mib) << 20, Mode: 0o644,
	}))
	return append(pack(head.Bytes()), bytes.Repeat(pack(bytes.Repeat([]byte("\n"), 1<<20)), mib)...)
}

// A worker refuses a trace of 3 GiB in 3 MB, and takes no memory for it.
func TestWorkerRefusesBomb(t *testing.T) {
	s := startServer(t, Access{})
	job := fakeJob(t)
	trainer, err := NewTrainer(t.Context(), dial(t, s, Access{}), job, TrainerOptions{})
	require.NoError(t, err)
	bucket, err := dial(t, s, Access{}).js.ObjectStore(t.Context(), streamName(trainer.run))
	require.NoError(t, err)
	_, err = bucket.PutBytes(t.Context(), job.Digests[0], bomb(t, 3<<10))
	require.NoError(t, err)

	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), mortalURL+"="+s.URL())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var seen []byte
	for buf := make([]byte, 4096); !bytes.Contains(seen, []byte("trying again")); {
		n, err := out.Read(buf)
		seen = append(seen, buf[:n]...)
		require.NoError(t, err, string(seen))
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	require.NoError(t, trainer.Close())
	require.Regexp(t, "trace "+job.Digests[0]+": .*events.csv: more than [0-9]+ MiB when unpacked", string(seen))
	require.ErrorContains(t, acceptable(bomb(t, 1<<10), maxArchive), "when unpacked")
	require.ErrorContains(t, acceptable(bomb(t, 1), 10), "the archives of a run may have 268435456 bytes")
	require.NoError(t, acceptable(bomb(t, 1), maxArchive))
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	require.LessOrEqual(t, usage.Maxrss, int64(512<<10), "KiB") // of 3 GiB; the race detector alone takes 200 MiB
	t.Logf("%d MiB at most", usage.Maxrss>>10)
}
