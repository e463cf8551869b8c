package snapshot

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/plural"
)

// AddUsage adds the use of pods in a file to a trace: a usage.csv.gz whose apps are workloads as
// namespace/kind/name and whose time 0 is that of the trace. A series is the use of each pod of a workload, of any size. Workloads
// that the trace lacks, such as DaemonSets, are counted in the note.
func AddUsage(t *trace.Trace, path string, unpacked int64) (note string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // only read
	by := &trace.Trace{Instance: &binpack.Instance{Dimensions: t.Instance.Dimensions}, Requests: t.Requests}
	apps, at := [][]int32{}, map[string]int{}
	for a := range t.Instance.Apps {
		name, _, _ := strings.Cut(t.Instance.Apps[a].Name, "@")
		i, ok := at[name]
		if !ok {
			i, at[name] = len(apps), len(apps)
			apps, by.Instance.Apps = append(apps, nil), append(by.Instance.Apps, binpack.App{Name: name})
		}
		apps[i] = append(apps[i], int32(a))
	}
	read, others, err := trace.ReadUsage(by, filepath.Base(path), bufio.NewReader(file), unpacked)
	if err != nil {
		return "", err
	}
	u := &trace.Usage{}
	for _, s := range read.Series {
		if s.Item != "" {
			return "", fmt.Errorf("%s: item %q: want no items: a series is of each pod of a workload", filepath.Base(path), s.Item)
		}
		for _, a := range apps[s.App] {
			one := s
			one.App = a
			u.Series = append(u.Series, one)
		}
	}
	if len(u.Series) == 0 {
		return "", fmt.Errorf("%s: no workload of the cluster is in it: want namespace/kind/name, such as %s", filepath.Base(path), by.Instance.Apps[0].Name)
	}
	const day = 86400
	if _, until := u.Span(); math.Abs(until) > day {
		side := map[bool]string{true: "before", false: "after"}[until < 0]
		return "", fmt.Errorf("%s: the last sample is %.1f days %s time 0, the time of the dump: want one within a day", filepath.Base(path), math.Abs(until)/day, side)
	}
	t.SetUsage(u)
	if others > 0 {
		note = fmt.Sprintf("%s: %s of workloads that the trace lacks", filepath.Base(path), plural.Of(others, "row"))
	}
	return note, nil
}
