package page

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// How long an answer of the API server for a token is valid, and for how many tokens.
const (
	allowedFor = time.Minute
	deniedFor  = 10 * time.Second
	tokens     = 1024
)

// Authorized passes a call on if the API server allows it for its bearer token, like
// kube-scheduler for /metrics. The program's account needs to create TokenReviews and
// SubjectAccessReviews.
//
// k8s.io/apiserver, and with it the filter of controller-runtime, does the same; it takes
// 46 MB of program where this adds nothing.
func Authorized(config *rest.Config, next http.Handler) (http.Handler, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 10, 20 // of its own: callers do not use up the program's
	config.RateLimiter = nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &guard{client: client, next: next, answers: cache.NewLRUExpireCache(tokens)}, nil
}

type guard struct {
	client  kubernetes.Interface
	next    http.Handler
	answers *cache.LRUExpireCache // question → status
}

// question is a question to the API server; only the hash of the token is kept.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !ok || token == "" {
		http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		return
	}
	q := question{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
	status, ok := g.answers.Get(q)
	if !ok {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		answer, err := g.ask(ctx, token, q)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot ask the API server who may call", "path", q.path)
			http.Error(w, "the API server cannot be asked", http.StatusServiceUnavailable)
			return
		}
		status = answer
		ttl := deniedFor
		if answer == http.StatusOK {
			ttl = allowedFor
		}
		g.answers.Add(q, answer, ttl)
	}
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status.(int)), status.(int))
		return
	}
	g.next.ServeHTTP(w, r)
}

// ask returns the status of a call by the API server's answers.
func (g *guard) ask(ctx context.Context, token string, q question) (int, error) {
	review, err := g.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	user := review.Status.User
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: q.path, Verb: q.verb},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !access.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
