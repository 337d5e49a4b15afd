exports.run = () => {}
