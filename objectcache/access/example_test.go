// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A gateway asks at its start what it may not read, and prints the Roles that it lacks.
func ExampleCheck() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	server.Authorize(func(request apiserver.Request) bool { return request.Name == "tls" })
	certificates := []types.NamespacedName{{Namespace: "shop", Name: "tls"}, {Namespace: "shop", Name: "tls-next"}}

	reviews := server.Client().AuthorizationV1().SelfSubjectAccessReviews()
	denied, err := access.Check(context.Background(), reviews, access.Secrets(certificates...))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, permission := range denied {
		fmt.Println(permission)
	}
	roles, err := denied.Roles("gateway-certificates")
	fmt.Println(len(roles), roles[0].Namespace, roles[0].Rules[0].ResourceNames, err)
	// Output:
	// list, watch of secrets tls-next is not allowed in the namespace "shop"
	// 1 shop [tls-next] <nil>
}
