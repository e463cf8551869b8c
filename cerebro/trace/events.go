package trace

import (
	"io"
	"math"
	"strings"
)

// An eventReader reads events.csv line by line.
type eventReader struct {
	rows     *table
	trace    *Trace
	apps     map[string]int32
	requests map[string]int32
	left     []int32 // items not yet deleted, per request
	items    int64   // of all requests
	last     float64 // time of the event before
}

// newEventReader reads the events that follow t, whose instance and placed
// requests are known. Each create adds its request to t.Requests; t.Events
// stays as it is.
func newEventReader(r io.Reader, t *Trace, apps, requests map[string]int32) (*eventReader, error) {
	rows, err := newTable(eventsFile, r, eventColumns)
	if err != nil {
		return nil, err
	}
	if requests == nil {
		requests = map[string]int32{}
	}
	e := &eventReader{rows: rows, trace: t, apps: apps, requests: requests, last: math.Inf(-1)}
	for _, request := range t.Requests {
		e.left = append(e.left, request.Count)
		e.items += int64(request.Count)
	}
	return e, nil
}

// Next returns the next event, io.EOF after the last, or an error that names
// file, line and field. After an error the reader must not be used again.
func (e *eventReader) Next() (Event, error) {
	if err := e.rows.next(); err != nil {
		return Event{}, err
	}
	at, err := parseFloat(e.rows.field(eventTime))
	if err != nil {
		return Event{}, e.rows.bad(eventTime, err)
	}
	if at < e.last {
		return Event{}, e.rows.badf(eventTime, "before %s in the line above", appendFloat(nil, e.last))
	}
	e.last = at
	switch e.rows.field(eventKind) {
	case createText:
		return e.create(at)
	case deleteText:
		return e.delete(at)
	}
	return Event{}, e.rows.badf(eventKind, "want %s or %s", createText, deleteText)
}

func (e *eventReader) create(at float64) (Event, error) {
	name, err := e.rows.name(eventRequest)
	if err != nil {
		return Event{}, err
	}
	if _, ok := e.requests[name]; ok {
		return Event{}, e.rows.badf(eventRequest, "duplicate request")
	}
	app, ok := e.apps[e.rows.field(eventApp)]
	if !ok {
		return Event{}, e.rows.badf(eventApp, "unknown app")
	}
	count, err := e.rows.count(eventCount, 1)
	if err != nil {
		return Event{}, err
	}
	if e.items += int64(count); e.items > maxItems {
		return Event{}, e.rows.badf(eventCount, "more than %d items in all", maxItems)
	}
	i := int32(len(e.trace.Requests))
	name = strings.Clone(name) // the row's text ends with the row
	e.requests[name] = i
	e.trace.Requests = append(e.trace.Requests, Request{name, app, count})
	e.left = append(e.left, count)
	return Event{at, Create, i, count}, nil
}

func (e *eventReader) delete(at float64) (Event, error) {
	i, ok := e.requests[e.rows.field(eventRequest)]
	if !ok {
		return Event{}, e.rows.badf(eventRequest, "delete of an unknown request")
	}
	request := e.trace.Requests[i]
	if text := e.rows.field(eventApp); text != "" && text != e.trace.Instance.Apps[request.App].Name {
		return Event{}, e.rows.badf(eventApp, "the request is of app %q", e.trace.Instance.Apps[request.App].Name)
	}
	count := e.left[i]
	if e.rows.field(eventCount) != "" {
		var err error
		if count, err = e.rows.count(eventCount, 1); err != nil {
			return Event{}, err
		}
	}
	if count > e.left[i] || e.left[i] == 0 {
		return Event{}, e.rows.badf(eventCount, "delete of more items than remain of request %q: %d of %d",
			request.Name, e.left[i], request.Count)
	}
	e.left[i] -= count
	return Event{at, Delete, i, count}, nil
}
