package trace_test

import (
	"fmt"
	"log"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func Example() {
	t, err := trace.Load("testdata/small")
	if err != nil {
		log.Fatal(err)
	}
	for _, order := range []int{0, 1} {
		fmt.Println("order", order)
		for _, e := range t.Order(7, order) {
			if e.Kind == trace.Create {
				request := t.Requests[e.Request]
				fmt.Printf("%4v s: %d of %s\n", e.Time, request.Count, t.Instance.Apps[request.App].Name)
			}
		}
	}
	// Output:
	// order 0
	//    0 s: 3 of web
	// 10.5 s: 2 of db-large
	//   20 s: 7 of batch
	//   30 s: 1 of db-small
	// order 1
	//    0 s: 3 of web
	// 10.5 s: 1 of db-small
	//   20 s: 7 of batch
	//   30 s: 2 of db-large
}
