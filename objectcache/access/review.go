// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// maxReviews is how many reviews of one check are under way at a time.
const maxReviews = 8

// question is what a review asks for. The name is empty for all objects.
type question struct{ namespace, name, verb string }

// answer is that of a review.
type answer struct {
	question

	allowed bool
	reason  string // may be empty
}

// reviewer sends reviews about one resource.
type reviewer struct {
	reviews  typedauthorizationv1.SelfSubjectAccessReviewInterface
	resource authorizationv1.ResourceAttributes // without namespace, name and verb
}

func newReviewer(ctx context.Context, reviews typedauthorizationv1.SelfSubjectAccessReviewInterface, resource schema.GroupVersionResource) (*reviewer, error) {
	switch {
	case ctx == nil:
		return nil, fmt.Errorf("check access to %s: %w", resource.GroupResource(), objectcache.ErrNilContext)
	case reviews == nil:
		return nil, fmt.Errorf("check access to %s: the client is nil: pass client.AuthorizationV1().SelfSubjectAccessReviews()", resource.GroupResource())
	}
	return &reviewer{reviews, authorizationv1.ResourceAttributes{Group: resource.Group, Version: resource.Version, Resource: resource.Resource}}, nil
}

// ask returns the answers in the order of the questions, or the first error.
func (r *reviewer) ask(ctx context.Context, questions []question) ([]answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]answer, len(questions))
	var asked atomic.Int64
	var running sync.WaitGroup
	for range min(maxReviews, len(questions)) {
		running.Go(func() {
			for ctx.Err() == nil {
				next := int(asked.Add(1)) - 1
				if next >= len(questions) {
					return
				}
				got, err := r.askOne(ctx, questions[next])
				if err != nil {
					cancel(err)
				}
				answers[next] = got
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("check access to %s: %w", r.resource.Resource, err)
	}
	return answers, nil
}

// askOne sends a review.
func (r *reviewer) askOne(ctx context.Context, question question) (answer, error) {
	attributes := r.resource
	attributes.Namespace, attributes.Name, attributes.Verb = question.namespace, question.name, question.verb
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
	review, err := r.reviews.Create(ctx, review, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return answer{}, fmt.Errorf("the server refuses the question itself: bind the ClusterRole system:basic-user to the user: %w", err)
	case err != nil:
		return answer{}, fmt.Errorf("SelfSubjectAccessReview: %w", err)
	case review == nil:
		return answer{}, errors.New("SelfSubjectAccessReview: the client returned neither an answer nor an error")
	}
	reasons := []string{review.Status.Reason, review.Status.EvaluationError}
	return answer{question, review.Status.Allowed, joined(reasons, ": ")}, nil
}

// joined joins the texts that are not empty, each once.
func joined(texts []string, separator string) string {
	var unique []string
	for _, text := range texts {
		if text != "" && !slices.Contains(unique, text) {
			unique = append(unique, text)
		}
	}
	return strings.Join(unique, separator)
}

// wholeNamespaces returns the questions about all objects of each namespace with more
// than one name. About a single object it is as cheap to ask at once.
func wholeNamespaces(names map[string][]string, verbs []string) (questions []question) {
	for _, namespace := range slices.Sorted(maps.Keys(names)) {
		if len(names[namespace]) > 1 {
			for _, verb := range verbs {
				questions = append(questions, question{namespace: namespace, verb: verb})
			}
		}
	}
	return questions
}

// eachObject returns the questions about each object, sorted, but for what is allowed for
// its whole namespace.
func eachObject(names map[string][]string, verbs []string, whole []answer) (questions []question) {
	allowed := map[question]bool{}
	for _, answer := range whole {
		allowed[answer.question] = answer.allowed
	}
	for _, namespace := range slices.Sorted(maps.Keys(names)) {
		for _, name := range names[namespace] {
			for _, verb := range verbs {
				if !allowed[question{namespace: namespace, verb: verb}] {
					questions = append(questions, question{namespace, name, verb})
				}
			}
		}
	}
	return questions
}

// deniedGroup is a set of objects in a namespace to which the same verbs are denied for
// the same reason.
type deniedGroup struct {
	namespace, reason string
	names, verbs      []string
}

// groupDenied returns what the answers deny, in their order.
func groupDenied(answers []answer) (groups []*deniedGroup) {
	var objects []types.NamespacedName
	verbs, reasons := map[types.NamespacedName][]string{}, map[types.NamespacedName][]string{}
	for _, answer := range answers {
		if answer.allowed {
			continue
		}
		key := types.NamespacedName{Namespace: answer.namespace, Name: answer.name}
		if verbs[key] == nil {
			objects = append(objects, key)
		}
		verbs[key], reasons[key] = append(verbs[key], answer.verb), append(reasons[key], answer.reason)
	}
	for _, key := range objects {
		verbs, reason := verbs[key], joined(reasons[key], "; ")
		same := slices.IndexFunc(groups, func(g *deniedGroup) bool {
			return g.namespace == key.Namespace && g.reason == reason && slices.Equal(g.verbs, verbs)
		})
		if same >= 0 {
			groups[same].names = append(groups[same].names, key.Name)
			continue
		}
		groups = append(groups, &deniedGroup{key.Namespace, reason, []string{key.Name}, verbs})
	}
	return groups
}
