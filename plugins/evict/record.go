package evict

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Annotation holds the evictions of a workload's pods within the last hour, oldest first:
// time/source/node, separated by commas. A workload that has ever had one also has a label
// of this name, so that a list finds it; the label's value has no meaning. A Deployment
// has no annotation, since its status does not take labels; its ReplicaSets may show a
// copy of the annotation, which does not count.
const Annotation = "sigma-scheduler.io/evictions"

const (
	window = time.Hour
	// maxAhead is how far in the future a clock that was set back may have left a record.
	maxAhead = 24 * time.Hour
	// maxLength of an annotation that is read, in bytes; an hour of a workload is far below.
	maxLength = 64 << 10
)

// A Source is who evicts.
type Source string

// The sources.
const (
	MakeRoom  Source = "make-room"
	Rebalance Source = "rebalance"
	Updater   Source = "updater"
	// Batch are batch pods that leave for online ones. They do not count against the limits of other sources.
	Batch Source = "batch"
)

// A record is one eviction.
type record struct {
	at   time.Time // whole seconds
	by   Source
	node string
}

func (r record) String() string {
	return r.at.UTC().Format(time.RFC3339) + "/" + string(r.by) + "/" + r.node
}

// parse reads an annotation. It drops records older than an hour, and records in the
// future become now. The error names the unreadable part.
func parse(text string, now time.Time) ([]record, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("annotation %s: %d bytes, want at most %d", Annotation, len(text), maxLength)
	}
	if text == "" {
		return nil, nil
	}
	var list []record
	for i, field := range strings.Split(text, ",") {
		parts := strings.Split(field, "/")
		if len(parts) != 3 || parts[1] == "" {
			return nil, fmt.Errorf("annotation %s: entry %d %.80q: want time/source/node", Annotation, i+1, field)
		}
		r, err := parseRecord(parts, now)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: entry %d: %w", Annotation, i+1, err)
		}
		if r.at.After(now.Add(-window)) {
			list = append(list, r)
		}
	}
	return list, nil
}

// parseRecord reads time, source and node. A time in the future becomes now.
func parseRecord(parts []string, now time.Time) (record, error) {
	at, err := time.Parse(time.RFC3339, parts[0])
	switch {
	case err != nil:
		return record{}, fmt.Errorf("time %.40q: want the form 2006-01-02T15:04:05Z", parts[0])
	case at.After(now.Add(maxAhead)):
		return record{}, fmt.Errorf("time %s is more than a day from now", parts[0])
	case at.After(now):
		at = now
	}
	return record{at.UTC().Truncate(time.Second), Source(parts[1]), parts[2]}, nil
}

func format(list []record) string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b record) int { return a.at.Compare(b.at) })
	text := make([]string, len(list))
	for i, r := range list {
		text[i] = r.String()
	}
	return strings.Join(text, ",")
}
