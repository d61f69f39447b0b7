package lower

var indexRows = []row{}
