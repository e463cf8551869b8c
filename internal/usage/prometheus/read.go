package prometheus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/internal/usage"
)

// The queries. A container that was restarted within a step has a series of cpu for each
// start, by its id, and their use adds up; two jobs that scrape the same kubelet have the same
// id, and count once. rate takes the resets of counters into account.
const (
	cpuQuery    = `sum by (namespace, pod, container) (max by (namespace, pod, container, id) (rate(container_cpu_usage_seconds_total{%s}[5m])))`
	memoryQuery = `max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{%s}[5m]))`
)

const (
	// samples is the number of samples of an answer, about: 15 MB of JSON.
	samples = 1 << 19
	// late is the time after a midnight at which all samples of the day are there.
	late = 15 * time.Minute
	// kept are the days whose files are kept by default.
	kept = 60
)

// A Reader reads days of use.
type Reader struct {
	// URLs are those of the Prometheis, each with user and password where it needs them.
	// Several may scrape the same pods, of which the first with a sample counts, or
	// different ones.
	URLs []string
	// Match has matchers of labels for all queries, see [Matchers]: those of one cluster, where the
	// Prometheis have several. Without any, or with those of other labels, several are a [MixedError].
	Match string
	// Folder keeps a file for each day that was read, in a folder for these URLs and this Match: the
	// days of others are of other clusters.
	Folder string
	// Keep is the number of days whose files are kept; 0 = 60.
	Keep int64
	// Progress, if set, is called after each day.
	Progress func(done, of int)
	// API, if set, returns the API of a URL, as with credentials that are not in it.
	API func(url string) promv1.API
}

// identity is a name for servers, whatever their order, users and passwords, with a match.
func identity(addresses []string, match string) string {
	var plain []string
	for _, address := range addresses {
		if u, err := url.Parse(address); err == nil {
			u.User = nil
			address = strings.TrimSuffix(u.String(), "/")
		}
		plain = append(plain, address)
	}
	slices.Sort(plain)
	plain = append(plain, fmt.Sprint("format ", format), match) // days of an earlier format may mix clusters
	sum := sha256.Sum256([]byte(strings.Join(plain, "\n")))
	return hex.EncodeToString(sum[:6])
}

// A Record is the days that are in files.
type Record struct {
	Days  []int64 // those with samples, ascending, as days since 1970
	From  int64   // the first day that was asked for
	Until int64   // the day after the last one
	Read  int     // days that were not in files before
	// Most is the capacity of the largest node: more is no use. 0 = any number.
	Most usage.Amounts
	// Runs, if set, has the names of the containers that a pod has from its beginning to its end; none = not known.
	Runs func(pod Pod) []string

	folder string
	match  string
	alive  map[Pod][]life // nil = not read yet
}

// ErrEmpty is the error if no day has a sample.
var ErrEmpty = errors.New("no container_cpu_usage_seconds_total of pods")

// Read reads so many whole days of UTC before now, and keeps them.
func (r *Reader) Read(ctx context.Context, now time.Time, days int) (*Record, error) {
	var servers []*server
	for _, address := range r.URLs {
		s, err := newServer(address)
		if err != nil {
			return nil, err
		}
		if r.API != nil {
			s.api = r.API(address)
		}
		servers = append(servers, s)
	}
	if _, err := Matchers(r.Match); err != nil {
		return nil, fmt.Errorf("the matchers %q: %w", r.Match, err)
	}
	folder := filepath.Join(r.Folder, identity(r.URLs, r.Match))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	until := now.Add(-late).Unix() / int64(day/time.Second)
	rec := &Record{From: until - int64(days), Until: until, folder: folder, match: r.Match}
	for n := rec.From; n < until; n++ {
		_, err := os.Stat(rec.path(n))
		if errors.Is(err, fs.ErrNotExist) {
			err = rec.fetch(ctx, servers, n)
		} else if err == nil {
			rec.Days = append(rec.Days, n)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the use of %s: %w", beginOf(n).Format(time.DateOnly), err)
		}
		if r.Progress != nil {
			r.Progress(int(n-rec.From)+1, days)
		}
	}
	if len(rec.Days) == 0 {
		return nil, fmt.Errorf("%w from %s to %s in %s", ErrEmpty, beginOf(rec.From).Format(time.DateOnly), beginOf(until-1).Format(time.DateOnly), namesOf(servers))
	}
	return rec, rec.prune(cmp.Or(r.Keep, kept))
}

func namesOf(servers []*server) string {
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

func (rec *Record) path(number int64) string {
	return filepath.Join(rec.folder, beginOf(number).Format(time.DateOnly)+".gz")
}

// Day reads the file of one of the days, without the samples beyond the largest node.
func (rec *Record) Day(number int64) (*Day, error) {
	d, err := readDay(rec.path(number), number, nil)
	if err == nil {
		d.bound(rec.Most)
	}
	return d, err
}

// prune deletes the files of days before the last ones.
func (rec *Record) prune(keep int64) error {
	list, err := os.ReadDir(rec.folder)
	if err != nil {
		return err
	}
	for _, e := range list {
		at, wrong := time.Parse(time.DateOnly+".gz", e.Name())
		if wrong == nil && at.Before(beginOf(rec.Until-keep)) {
			err = errors.Join(err, os.Remove(filepath.Join(rec.folder, e.Name())))
		}
	}
	return err
}

// fetch reads a day, and writes its file if it has a sample: a server may get the data of an
// empty one later.
func (rec *Record) fetch(ctx context.Context, servers []*server, number int64) error {
	g := &grid{begin: beginOf(number), match: rec.match, rows: map[containerName]*Container{}}
	tasks, stop := errgroup.WithContext(ctx)
	tasks.SetLimit(2) // one is evaluated while the other is decoded
	size := Steps
	v := survey{seen: map[string]map[string]bool{}}
	for _, s := range servers {
		if err := v.survey(ctx, s, g.begin, rec.match); err != nil {
			return err
		}
		size = min(size, max(1, samples/max(1, v.most)))
	}
	for first := 0; first < Steps; first += size {
		for _, memory := range []bool{false, true} {
			tasks.Go(func() error {
				for _, s := range servers {
					if err := g.read(stop, s, memory, first, min(Steps, first+size)); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	var owners map[Pod]Owner
	tasks.Go(func() (err error) {
		owners, err = ownersOf(stop, servers, g.begin, rec.match)
		return err
	})
	if err := tasks.Wait(); err != nil {
		return err
	}
	d := g.day(number)
	if len(d.Containers) == 0 {
		return nil
	}
	d.Owners = owners
	if err := d.write(rec.path(number)); err != nil {
		return err
	}
	rec.Days, rec.Read = append(rec.Days, number), rec.Read+1
	return nil
}

type containerName struct {
	Pod
	name string
}

func nameOf(m model.Metric) containerName {
	return containerName{Pod{string(m["namespace"]), string(m["pod"])}, string(m["container"])}
}

// A grid collects the samples of a day.
type grid struct {
	begin   time.Time
	match   string
	mu      sync.Mutex
	rows    map[containerName]*Container
	dropped Dropped
}

// read adds the samples of some steps of one server, where there are none yet.
func (g *grid) read(ctx context.Context, s *server, memory bool, first, last int) error {
	query := cpuQuery
	if memory {
		query = memoryQuery
	}
	query = fmt.Sprintf(query, selector(g.match))
	return inParts(ctx, first, last, last-first, func(first, last int) error {
		m, err := s.span(ctx, query, g.begin.Add(time.Duration(first)*Step), g.begin.Add(time.Duration(last)*Step))
		if err == nil {
			g.add(m, memory)
		}
		return err
	})
}

func (g *grid) add(m model.Matrix, memory bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range m {
		name := nameOf(s.Metric)
		row := g.rows[name]
		if row == nil {
			row = &Container{Pod: name.Pod, Name: name.name}
			g.rows[name] = row
		}
		values := &row.CPU
		if memory {
			values = &row.Memory
		}
		for _, p := range s.Values {
			i := int(p.Timestamp.Time().Sub(g.begin)/Step) - 1
			if i < 0 || i >= Steps {
				continue
			}
			if v := float64(p.Value); !plausible(v) {
				g.dropped.add(1, name.Pod)
			} else if *values == nil || (*values)[i] != (*values)[i] {
				*values = set(*values, i, float32(math.Abs(v))) // no negative zero
			}
		}
	}
}

func (g *grid) day(number int64) *Day {
	d := &Day{Number: number, Dropped: g.dropped}
	for _, row := range g.rows {
		if row.CPU != nil || row.Memory != nil {
			d.Containers = append(d.Containers, *row)
		}
	}
	slices.SortFunc(d.Containers, func(a, b Container) int {
		return slices.Compare([]string{a.Namespace, a.Pod.Name, a.Name}, []string{b.Namespace, b.Pod.Name, b.Name})
	})
	return d
}
