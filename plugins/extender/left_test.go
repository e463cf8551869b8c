package extender

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// In shadow the scheduler chooses a pod's node. The next pod that the same rule selects
// has to wait until that node is known.
func TestWaitsForTheSchedulersChoice(t *testing.T) {
	inShadow := func(t *testing.T) *desk {
		d := newDesk(t)
		d.opt.Engine.SetPolicy(ledger.Primary, policyOf(filling, "shadow"))
		d.oneWeb()
		d.view.setNode(node("a", 4))
		d.view.setNode(node("b", 4))
		d.filter(pod("web-1", "web"), "a", "b")
		d.prioritize(pod("web-1", "web"), "a", "b")
		return d
	}
	// after lets something happen a while later, and the pod web-2 wait for it.
	after := func(t *testing.T, happen func(*desk), pass []string) {
		synctest.Test(t, func(t *testing.T) {
			d := inShadow(t)
			begin := time.Now()
			time.AfterFunc(patience/2, func() { happen(d) })
			passed, _ := d.filter(pod("web-2", "web"), "a", "b")
			require.Equal(t, pass, passed)
			require.Equal(t, patience/2, time.Since(begin))
		})
	}
	after(t, func(d *desk) { d.view.setPod(at(pod("web-1", "web"), "a")) }, []string{"b"})
	after(t, func(d *desk) { d.view.removePod(pod("web-1", "web")) }, []string{"a", "b"})

	synctest.Test(t, func(t *testing.T) {
		d := inShadow(t)
		begin := time.Now()
		d.filter(pod("db-1", "db"), "a", "b") // no rule is about it
		d.filter(pod("web-1", "web"), "a", "b")
		require.Zero(t, time.Since(begin))
		d.prioritize(pod("web-1", "web"), "a", "b")

		body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("web-2", "web"), NodeNames: &[]string{"a", "b"}})
		require.NoError(t, err)
		status, text := d.post("/filter", body)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, string(text), "pod default/web-1")
		require.Equal(t, patience, time.Since(begin))

		d.now = d.now.Add(d.opt.AssumeTTL + time.Second) // it was not bound
		passed, _ := d.filter(pod("web-2", "web"), "a", "b")
		require.Equal(t, []string{"a", "b"}, passed)
	})
}
