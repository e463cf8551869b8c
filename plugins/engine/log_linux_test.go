package engine

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

// onSmallDisk is a lab whose log is on a file system of 512 KiB.
func onSmallDisk(t *testing.T, changes ...func(*Options)) (l *lab, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("sigma", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	l = busy(t, append(changes, func(o *Options) { o.DecisionLog = filepath.Join(dir, "decisions.jsonl") })...)
	l.path = l.options.DecisionLog
	return l, dir
}

// reports are the lines that klog writes while do runs.
func reports(t *testing.T, do func()) string {
	t.Helper()
	var text bytes.Buffer
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	require.NoError(t, flags.Set("logtostderr", "false"))
	require.NoError(t, flags.Set("one_output", "true"))
	require.NoError(t, flags.Set("stderrthreshold", "FATAL"))
	klog.SetOutput(&text)
	defer func() {
		klog.Flush()
		klog.SetOutput(os.Stderr)
		require.NoError(t, flags.Set("one_output", "false"))
		require.NoError(t, flags.Set("logtostderr", "true"))
	}()
	do()
	klog.Flush()
	return text.String()
}

// The disk is full: decisions go on, the log stays whole, one error is reported a minute.
// When there is room again, the log begins again by itself, and says what it lacks.
func TestLogOnFullDisk(t *testing.T) {
	l, dir := onSmallDisk(t)
	rng := rand.New(rand.NewPCG(3, 3))
	l.live(rng, 100)
	filler := filepath.Join(dir, "filler")
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) // as much of it as there is room for
	begin := l.now
	said := reports(t, func() { l.live(rng, 1200) })
	minutes := int(l.now.Sub(begin)/time.Minute) + 1
	require.GreaterOrEqual(t, minutes, 3)
	lines := strings.Count(said, "Cannot write the decision log")
	require.LessOrEqual(t, lines, minutes, said)
	require.GreaterOrEqual(t, lines, 2, "errors go on")
	require.Contains(t, said, `unreportedErrors=`)
	require.Contains(t, said, "no space left on device")
	errors := l.counter(l.metrics.logErrors)
	require.Greater(t, errors, lines)
	lost := l.counter(l.metrics.logLost)
	require.Greater(t, lost, 500)
	require.NotZero(t, l.place(pod("during", "app2")).Ranked, "decisions go on")

	v := l.verifyFiles(l.path)
	require.Equal(t, 1, v.Starts)
	text, err := os.ReadFile(l.path)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(text, []byte("\n")))

	require.NoError(t, os.Remove(filler))
	l.now = l.now.Add(retryEvery)
	l.live(rng, 100)
	v = l.verify()
	require.Equal(t, 2, v.Starts)
	require.Greater(t, v.Agreed, 60)
	require.Len(t, v.Gaps, 1)
	require.EqualValues(t, l.counter(l.metrics.logLost), v.Gaps[0].Lost)
	require.GreaterOrEqual(t, l.counter(l.metrics.logLost), lost)
}

// A log that another program copied and cut, on a full disk: no bytes come back that it
// has cut.
func TestLogCutOnFullDisk(t *testing.T) {
	l, dir := onSmallDisk(t)
	rng := rand.New(rand.NewPCG(4, 4))
	l.live(rng, 300)
	require.NoError(t, os.Truncate(l.path, 0))
	_ = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600)
	_ = reports(t, func() { l.live(rng, 100) })
	text, err := os.ReadFile(l.path)
	require.NoError(t, err)
	require.Empty(t, text)
	require.NoError(t, os.Remove(filepath.Join(dir, "filler")))
	l.now = l.now.Add(retryEvery)
	l.live(rng, 100)
	require.Equal(t, 1, l.verify().Starts)
}

// A volume that becomes read-only, and writable again.
func TestLogOnReadOnlyVolume(t *testing.T) {
	l, dir := onSmallDisk(t)
	rng := rand.New(rand.NewPCG(5, 5))
	l.live(rng, 100)
	require.NoError(t, l.state.log.file.Close()) // a volume with a file open to write is never made so
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	said := reports(t, func() { l.live(rng, 100) })
	require.Contains(t, said, "read-only file system")
	require.Positive(t, l.counter(l.metrics.logLost))
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""))
	l.now = l.now.Add(retryEvery)
	l.live(rng, 100)
	v := l.verify()
	require.Equal(t, 2, v.Starts)
	require.Len(t, v.Gaps, 1, fmt.Sprint(v.Gaps))
}

// The disk is full when the description is written. A log that was only full of lines goes
// on in the same file, when there is room again at once, else it begins again later.
func TestLogBeginsOnFullDisk(t *testing.T) {
	for _, soon := range []bool{true, false} {
		t.Run(fmt.Sprint("room soon=", soon), func(t *testing.T) {
			l, dir := onSmallDisk(t, func(o *Options) { o.DecisionLogBytes = 30 << 10 })
			rng := rand.New(rand.NewPCG(6, 6))
			s := stallAt(l)
			s.reach(rng)
			l.live(rng, 50)
			filler := filepath.Join(dir, "filler")
			_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) // as much of it as there is room for
			_ = reports(t, func() {
				s.end()
				if !soon {
					l.live(rng, 20)
					require.Positive(t, l.counter(l.metrics.logLost))
				}
				require.NoError(t, os.Remove(filler))
				l.flush()
			})
			require.Positive(t, l.counter(l.metrics.logErrors))
			l.now = l.now.Add(retryEvery)
			l.live(rng, 50)
			v := l.verifyFiles(l.files()...)
			require.GreaterOrEqual(t, v.Starts, 2)
			if soon {
				require.Equal(t, 1, l.counter(l.metrics.logErrors))
				require.Zero(t, l.counter(l.metrics.logLost))
				require.Empty(t, v.Gaps)
				return
			}
			require.Len(t, v.Gaps, 1)
			require.EqualValues(t, l.counter(l.metrics.logLost), v.Gaps[0].Lost)
		})
	}
}
