package extender

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// Pods of ever new apps come and go. Some are deleted before they are bound, and of some
// the cluster never hears.
func TestSoak(t *testing.T) {
	d := newDesk(t)
	e, err := engine.New(engine.Options{
		Profile: t.Name(), PolicyName: "general", AppLabel: "app", Fleet: "fixed", Top: Levels, Now: func() time.Time { return d.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.opt.Engine, d.view.engine = e, e // without a decision log
	d.decideBy(spreading)
	d.oneWeb()
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprint("node-", i))
		d.view.setNode(node(names[i], 64))
	}
	soak := packtest.NewSoak(t, "extender", 20_000)
	var standing []*v1.Pod
	for i, more := 0, true; more; i++ {
		p := pod(fmt.Sprint("pod-", i), fmt.Sprint("build-", i/8))
		d.now = d.now.Add(time.Second)
		d.filter(p, names...)
		chosen := d.first(p, names...)
		switch i % 16 {
		case 3:
			d.view.removePod(p)
		case 5: // made up
		default:
			p = at(p, chosen)
			d.view.setPod(p)
			standing = append(standing, p)
		}
		if len(standing) > 200 {
			d.view.removePod(standing[0])
			standing = standing[1:]
		}
		for range 4 { // filter, prioritize, bound, deleted
			more = soak.Event() && more
		}
	}
	soak.Flat()
}
