package history_test

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/plugins/history"
)

// The second half of a recorded day, as a trace.
func ExampleRead() {
	from, err := history.ParseTime("3s")
	if err != nil {
		panic(err)
	}
	past, err := history.Read([]string{"../../docs/examples/decisions.jsonl"}, from, history.Time{})
	if err != nil {
		panic(err)
	}
	trace, _, err := past.Trace(history.Options{Name: "day"})
	if err != nil {
		panic(err)
	}
	for _, p := range trace.Placed {
		fmt.Println("stands", trace.Requests[p.Request].Name, trace.MachineName(p.Line, p.Index))
	}
	for _, e := range trace.Events {
		fmt.Println(e.Time, [...]string{"comes", "leaves"}[e.Kind], trace.Requests[e.Request].Name)
	}
	// Output:
	// stands shop/db-0 n1
	// stands shop/web-1 n2
	// 0 comes shop/web-2
	// 0.25 leaves shop/web-2
	// 0.75 comes shop/web-2#2
	// 1 leaves shop/web-1
	// 1.5 comes shop/web-3
}
