package snapshot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	follow "github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

// days are the segments of a recording, completed.
func days(t *testing.T, dir string) (*follow.Segments, *follow.Log) {
	t.Helper()
	s, err := follow.OpenSegments(filepath.Join(dir, "segments"), follow.Limits{})
	require.NoError(t, err)
	l := follow.Follow(filepath.Join(dir, "log"), s, noon.AddDate(1, 0, 0))
	t.Cleanup(l.Close)
	require.NoError(t, l.Poll(noon.AddDate(1, 0, 0)))
	require.NoError(t, l.Fault())
	require.NoError(t, s.Complete(t.Context()))
	return s, l
}

// A recording in files keeps what stands, and its log gives a segment of each day: through files that are full, a new process
// and, with a gap, a time without an API server.
func TestRecordingInFiles(t *testing.T) {
	dir := t.TempDir()
	nodes := []*v1.Node{node("n1"), node("n2")}
	open := func() *Recorder {
		r, err := OpenRecorder(filepath.Join(dir, "log"), "", "fixed", ledger.Rotation{Bytes: 4096}, noon)
		require.NoError(t, err)
		return r
	}
	r := open()
	const hour = 3600.
	standing := []*v1.Pod{pod("web", "web-0", "n1", "1")}
	record(t, r, 0, picture(nodes, standing...))
	came := 0
	for h := 1.; h < 60; h++ { // from noon to midnight after two days
		next := pod("web", "web-"+string(rune('A'+came%26))+string(rune('a'+came/26)), []string{"n1", "n2"}[came%2], "1")
		came++
		if standing = append(standing, next); len(standing) > 4 {
			standing = standing[1:]
		}
		record(t, r, h*hour, picture(nodes, standing...))
		if h == 30 {
			require.NoError(t, r.Close())
			r = open()
			record(t, r, h*hour+600, picture(nodes, standing...))
		}
	}
	require.Equal(t, 4, r.Counts().Placed)
	require.Equal(t, 2, r.Counts().Nodes)
	require.Equal(t, 29, r.Counts().Arrived, "since the first look of this process")
	require.Less(t, len(r.files.pods), 6)
	aside, err := filepath.Glob(filepath.Join(dir, "log.2*"))
	require.NoError(t, err)
	require.NotEmpty(t, aside, "no file was full")

	s, l := days(t, dir)
	list := s.List()
	require.Len(t, list, 1, "the first day is not whole, the last not over")
	require.Empty(t, list[0].Gap)
	tr, err := trace.Load(s.Trace(list[0]))
	require.NoError(t, err)
	require.Equal(t, "fixed", tr.Instance.Fleet.String())
	require.Equal(t, 4, tr.Initial)
	creates := 0
	for _, e := range tr.Events {
		if e.Kind == trace.Create {
			creates++
		}
	}
	require.Equal(t, 24, creates)
	require.ElementsMatch(t, []string{"n1", "n2"}, l.Nodes())
	l.Close()

	// The API server was away for long.
	r.Miss()
	record(t, r, 70*hour, picture(nodes, standing...))
	record(t, r, 90*hour, picture(nodes, standing[1:]...))
	require.NoError(t, r.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "segments")))
	s, _ = days(t, dir)
	list = s.List()
	require.Len(t, list, 3)
	require.Empty(t, list[0].Gap)
	require.Contains(t, list[1].Gap, "events were not written before")
	require.Contains(t, list[2].Gap, "events were not written before")

	r = open()
	require.NoError(t, r.Continue(l.Start(), map[string]string{"n1": ""}))
	require.NoError(t, r.SameCluster(picture(nodes)))
	require.ErrorContains(t, r.SameCluster(picture([]*v1.Node{node("other")})), "another cluster")
	require.NoError(t, r.Close())
}

// A cluster in which nothing changes was watched all the same: the day has no gap over a new process, and ends at
// midnight.
func TestQuietCluster(t *testing.T) {
	dir := t.TempDir()
	const minute = 60.
	still := picture([]*v1.Node{node("n1")}, pod("web", "web-0", "n1", "1"))
	watch := func(from, until float64) {
		r, err := OpenRecorder(filepath.Join(dir, "log"), "", "open", ledger.Rotation{Bytes: 1 << 20}, noon)
		require.NoError(t, err)
		for m := from; m <= until; m++ {
			record(t, r, m*minute, still)
		}
		require.NoError(t, r.Close())
	}
	watch(0, 18*60)
	watch(18*60+10, 36*60+10)
	s, _ := days(t, dir)
	list := s.List()
	require.Len(t, list, 1, "from midnight to midnight")
	require.Empty(t, list[0].Gap)
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Less(t, len(text), 150_000, "a line in five minutes")
}
